package placement

// pageSize is how many things are asked for at once.
const pageSize = 1000

// gather gets so many things, page by page; 0: all. next is empty where there are no more.
func gather[T any](limit int, page func(limit int, cursor string) (things []T, next string, err error)) (all []T, next string, err error) {
	all = []T{}
	for {
		most := pageSize
		if limit > 0 {
			most = min(limit-len(all), pageSize)
		}
		things, more, err := page(most, next)
		if err != nil {
			return nil, "", err
		}
		all = append(all, things...)
		next = more
		if next == "" || limit > 0 && len(all) >= limit {
			return all, next, nil
		}
	}
}
