"use strict";
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
for (const part of document.querySelectorAll(".case-list")) {
  const body = part.querySelector("tbody");
  const rows = [...body.rows];
  const words = rows.map((row) => row.textContent.toLowerCase());
  const axes = rows.map((row) => [...row.querySelectorAll(".axis")].map((each) => each.textContent.toLowerCase()));
  const known = new Set(axes.flat());
  // "tokens=3" is that axis and value alone, once some case has it; until then whatever begins so.
  const holds = (index, word) => word.includes("=")
    ? axes[index].some((axis) => known.has(word) ? axis === word : axis.startsWith(word))
    : words[index].includes(word);
  const input = part.querySelector("input");
  const toggles = [...part.querySelectorAll("[data-outcome]")];
  const output = part.querySelector("output");
  const none = part.querySelector(".none");
  const apply = () => {
    const off = new Set(toggles.filter((each) => each.getAttribute("aria-pressed") === "false").map((each) => each.dataset.outcome));
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, index) => {
      row.hidden = off.has(row.dataset.is) || !wanted.every((word) => holds(index, word));
      shown += row.hidden ? 0 : 1;
    });
    output.textContent = `${shown} of ${rows.length}`;
    none.hidden = shown > 0;
  };
  input.addEventListener("input", apply);
  for (const toggle of toggles) {
    toggle.addEventListener("click", () => {
      toggle.setAttribute("aria-pressed", String(toggle.getAttribute("aria-pressed") === "false"));
      apply();
    });
  }
  const heads = [...part.querySelectorAll("th[aria-sort]")];
  for (const head of heads) {
    head.querySelector("button").addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const each of heads) each.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const column = head.cellIndex;
      const key = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent;
      const sorted = [...rows].sort((a, b) => key(a).localeCompare(key(b), undefined, { numeric: true }) * (up ? 1 : -1));
      body.append(...sorted);
    });
  }
  part.querySelector(".filters").hidden = false;
  apply();
}
