"""What torch itself makes of a cast to e4m3fn, and of a quotient, on a device."""

from __future__ import annotations

#: The inputs whose codes tell overflow policies apart, by name. 464 is the tie between 448 and 480.
EDGES = {"464": 464.0, "465": 465.0, "inf": float("inf"), "nan": float("nan")}


def cast_codes(device: str) -> tuple[int, ...]:
    """The codes of `EDGES` by torch's cast of fp32. Raises whatever torch raises where it has none."""
    import torch  # noqa: PLC0415 - slow to import

    values = torch.tensor(list(EDGES.values()), dtype=torch.float32, device=device)
    return tuple(values.to(torch.float8_e4m3fn).view(torch.uint8).cpu().tolist())


def ratio_448(device: str) -> float:
    """448 / 448 in fp32, as torch divides tensors."""
    import torch  # noqa: PLC0415

    values = torch.full((8,), 448.0, device=device)
    return float((values / torch.full((8,), 448.0, device=device))[0])
