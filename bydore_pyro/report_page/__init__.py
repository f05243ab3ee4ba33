"""The HTML report, in parts: reading a run, judging it, drawing it, and the page itself."""
