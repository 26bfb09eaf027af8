"""A recorded launch, made again by a small process without torch: under a sanitizer, in memory laid out for it."""
