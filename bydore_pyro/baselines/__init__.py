"""Other methods of choosing a mixture, one file each, on the same proxy and cost counter."""
