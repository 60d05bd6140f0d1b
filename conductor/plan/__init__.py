"""Readers of plan formats: text in, a validated `Plan` or an error with line and hint out."""
