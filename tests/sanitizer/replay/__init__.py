"""A launch recorded, planned and made again, without a GPU."""
