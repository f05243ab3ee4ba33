"""Training of a target model on a mixture; nothing of Pyro here."""
