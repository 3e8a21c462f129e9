module founders

go 1.25.0
