"""An encoder alone, input by input: where its codes differ from the right ones, of which kind, and by which fault."""
