"""What three parties compute on shares of all parties' numbers (MPyC), and open alone."""
