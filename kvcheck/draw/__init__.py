"""Inputs, slots and given scales, drawn with numpy alone so that every machine draws the same bits."""
