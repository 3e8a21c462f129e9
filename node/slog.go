package node

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// Slog adapts a *slog.Logger to Config.Logger. hclog's Trace becomes a level below slog.LevelDebug. The handler of l
// decides which levels are logged: SetLevel does nothing.
func Slog(l *slog.Logger) hclog.Logger { return &slogLogger{base: l, logger: l} }

const slogTrace = slog.LevelDebug - 4

type slogLogger struct {
	base   *slog.Logger // without the name and the arguments of With
	logger *slog.Logger
	name   string
	args   []any
}

func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Trace:
		return slogTrace
	case hclog.Debug:
		return slog.LevelDebug
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Error:
		return slog.LevelError
	}
	return slog.LevelInfo
}

func (s *slogLogger) Log(level hclog.Level, msg string, args ...any) {
	if level == hclog.Off {
		return
	}
	ctx := context.Background()
	if !s.logger.Enabled(ctx, slogLevel(level)) {
		return
	}
	s.logger.Log(ctx, slogLevel(level), msg, plainArgs(args)...)
}

// plainArgs resolves the argument types that hclog formats itself.
func plainArgs(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case hclog.Format:
			format, _ := v[0].(string)
			out[i] = fmt.Sprintf(format, v[1:]...)
		case hclog.Hex:
			out[i] = fmt.Sprintf("0x%x", int(v))
		case hclog.Octal:
			out[i] = fmt.Sprintf("0%o", int(v))
		case hclog.Binary:
			out[i] = fmt.Sprintf("0b%b", int(v))
		default:
			out[i] = a
		}
	}
	return out
}

func (s *slogLogger) Trace(msg string, args ...any) { s.Log(hclog.Trace, msg, args...) }
func (s *slogLogger) Debug(msg string, args ...any) { s.Log(hclog.Debug, msg, args...) }
func (s *slogLogger) Info(msg string, args ...any)  { s.Log(hclog.Info, msg, args...) }
func (s *slogLogger) Warn(msg string, args ...any)  { s.Log(hclog.Warn, msg, args...) }
func (s *slogLogger) Error(msg string, args ...any) { s.Log(hclog.Error, msg, args...) }

func (s *slogLogger) is(l hclog.Level) bool {
	return s.logger.Enabled(context.Background(), slogLevel(l))
}
func (s *slogLogger) IsTrace() bool { return s.is(hclog.Trace) }
func (s *slogLogger) IsDebug() bool { return s.is(hclog.Debug) }
func (s *slogLogger) IsInfo() bool  { return s.is(hclog.Info) }
func (s *slogLogger) IsWarn() bool  { return s.is(hclog.Warn) }
func (s *slogLogger) IsError() bool { return s.is(hclog.Error) }

func (s *slogLogger) ImpliedArgs() []any { return s.args }
func (s *slogLogger) Name() string       { return s.name }

func (s *slogLogger) With(args ...any) hclog.Logger {
	all := append(append([]any(nil), s.args...), args...)
	return s.derive(s.name, all)
}

func (s *slogLogger) Named(name string) hclog.Logger {
	return s.derive(strings.TrimPrefix(s.name+"."+name, "."), s.args)
}

func (s *slogLogger) ResetNamed(name string) hclog.Logger { return s.derive(name, s.args) }

func (s *slogLogger) derive(name string, args []any) hclog.Logger {
	l := s.base
	if name != "" {
		l = l.With("logger", name)
	}
	return &slogLogger{base: s.base, logger: l.With(plainArgs(args)...), name: name, args: args}
}

func (s *slogLogger) SetLevel(hclog.Level) {}

// GetLevel returns the most verbose level that the handler accepts.
func (s *slogLogger) GetLevel() hclog.Level {
	for _, l := range []hclog.Level{hclog.Trace, hclog.Debug, hclog.Info, hclog.Warn, hclog.Error} {
		if s.is(l) {
			return l
		}
	}
	return hclog.Off
}

func (s *slogLogger) StandardLogger(*hclog.StandardLoggerOptions) *stdlog.Logger {
	return slog.NewLogLogger(s.logger.Handler(), slog.LevelInfo)
}

func (s *slogLogger) StandardWriter(o *hclog.StandardLoggerOptions) io.Writer {
	return s.StandardLogger(o).Writer()
}
