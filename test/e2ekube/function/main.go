// Command function is what runs in the Jobs of e2e-kube: it reads its event, as JSON with a list of numbers, and writes
// their sum to its output. It fails with status 3 where there are none.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

func main() {
	var event struct {
		Numbers []float64 `json:"numbers"`
	}
	err := json.Unmarshal([]byte(os.Getenv("EVENT")), &event)
	if err == nil && len(event.Numbers) == 0 {
		err = errors.New("it has no numbers")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the event:", err)
		os.Exit(3)
	}
	sum := 0.0
	for _, n := range event.Numbers {
		sum += n
	}
	fmt.Fprintln(os.Stdout, "the sum is", sum)
}
