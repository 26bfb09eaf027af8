"""Number formats as data, two independent encoders, one decoder, and the arithmetic of contracts. No framework."""
