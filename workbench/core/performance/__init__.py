"""Model, measure and predict how long training takes and what it costs."""
