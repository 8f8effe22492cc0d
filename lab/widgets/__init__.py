"""What moves and answers: each widget is a Python file that owns the truth and a .js that draws."""
