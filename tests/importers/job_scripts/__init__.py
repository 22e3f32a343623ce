"""Job scripts as experiments: read, converted, and run beside the originals."""
