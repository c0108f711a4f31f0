"""evenshard: tables of links and archives of text into verified, training-ready chunk data sets."""
