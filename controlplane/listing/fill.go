package listing

// Fill takes entries from next until a page of limit entries is full, and says whether there are
// more: it is told of one entry more than the page has, so that a caller learns only of entries
// that match. next gives so many entries at most, and says whether the list ends behind them.
func Fill[T any](limit int, next func(most int) ([]T, bool, error)) (page []T, more bool, err error) {
	for end := false; !end && len(page) <= limit; {
		var some []T
		if some, end, err = next(limit + 1 - len(page)); err != nil {
			return nil, false, err
		}
		page = append(page, some...)
	}
	if len(page) > limit {
		return page[:limit], true, nil
	}
	return page, false, nil
}
