package releases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/drover-io/drover/pkg/decide/redact"
)

// Open opens a source of release data.
type Open func(ctx context.Context, source string) (io.ReadCloser, error)

// Load returns the embedded table, extended by a source if one is given. A source that cannot be read is an error. The
// caller may then continue with [Embedded].
func Load(ctx context.Context, source string, open Open) (Table, error) {
	table, err := Embedded()
	if err != nil || source == "" {
		return table, err
	}
	in, err := open(ctx, source)
	if err != nil {
		return Table{}, fmt.Errorf("open release data: %w", err)
	}
	added, err := Parse(in)
	if err = errors.Join(err, in.Close()); err != nil {
		return Table{}, err
	}
	return table.Merge(added), nil
}

// FromFileOrURL opens files, and http and https URLs with the given client. Errors contain no credentials of a URL.
func FromFileOrURL(client *http.Client) Open {
	return func(ctx context.Context, source string) (io.ReadCloser, error) {
		if !strings.HasPrefix(source, "http://") && !strings.HasPrefix(source, "https://") {
			return os.Open(source)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, source, http.NoBody)
		if err != nil {
			return nil, errors.New("the URL must be valid")
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, fmt.Errorf("get %s: %w", redact.URL(request.URL), redact.WithoutURL(err))
		}
		if response.StatusCode != http.StatusOK {
			return nil, errors.Join(fmt.Errorf("get %s: the server answered %s", redact.URL(request.URL),
				response.Status), response.Body.Close())
		}
		return response.Body, nil
	}
}
