package synthetic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Spare is how many bytes WriteFile leaves free on the disk.
const Spare = 1 << 30

// WriteFile writes the model to a new file in a folder, which it makes if need be, and returns the file's path. Before, it checks
// that the disk has room. It calls progress with the bytes that are written and all bytes. If it fails, or when ctx ends, it
// leaves no file. The caller removes the file.
func (m *Model) WriteFile(ctx context.Context, folder string, progress func(done, total int64)) (path string, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("synthetic: %w", err)
	}
	if free, known := freeBytes(folder); known && free < m.size+Spare {
		return "", fmt.Errorf("synthetic: the model takes %d MiB in %s, which has %d MiB free, and %d MiB are to be left: make room, or name another folder in TMACC_CACHE",
			m.size>>20, folder, free>>20, int64(Spare)>>20)
	}
	f, err := os.CreateTemp(folder, "model-*.gguf")
	if err != nil {
		return "", fmt.Errorf("synthetic: %w", err)
	}
	if err := errors.Join(m.write(ctx, f, progress), f.Close()); err != nil {
		return "", fmt.Errorf("synthetic: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return filepath.Clean(f.Name()), nil
}

// write writes the file in pieces.
func (m *Model) write(ctx context.Context, w io.Writer, progress func(done, total int64)) error {
	const piece = 4 << 20
	for at := int64(0); at < m.size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.Copy(w, io.NewSectionReader(m, at, min(piece, m.size-at)))
		if err != nil {
			return err
		}
		at += n
		progress(at, m.size)
	}
	return nil
}
