"""Matrices: from axes in a TOML file to frozen cases with stable ids."""
