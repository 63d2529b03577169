"""Digits split by label, in Flower, with participants picked by Oort."""
