package server

import (
	"net/http"
	"time"
)

// backup answers with a backup, which may be larger than any other answer: it is not kept in memory. The node takes one at a time. If
// the backup fails after it has begun, the connection breaks, so that no client takes the answer for a complete one.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	out := backupWriter{ResponseWriter: w, control: http.NewResponseController(w)}
	_ = out.control.SetReadDeadline(time.Time{}) // otherwise ReadTimeout would end the request
	err := s.awaitLeader(r.Context())
	if err == nil {
		_, err = s.node.Backup(r.Context(), &out)
	}
	switch {
	case err != nil && out.begun:
		panic(http.ErrAbortHandler)
	case err != nil:
		s.deliver(w, r, fail(s.explain(err)))
	}
}

// backupWriter is the answer with a backup. The client has BackupTimeout to take each piece.
type backupWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (w *backupWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	_ = w.control.SetWriteDeadline(time.Now().Add(BackupTimeout))
	return w.ResponseWriter.Write(p)
}
