"""What the committed reports prove."""
