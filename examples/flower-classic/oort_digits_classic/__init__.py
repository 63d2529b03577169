"""Digits split by label, in Flower's classic API, with participants picked by Oort."""
