"""Uses a trained model: translates, classifies and continues texts, also whole files."""
