/** Creates the structured log: JSON lines with the five ids and redacted secrets. */
import pino from 'pino';
import { builtInRedactor, type Redactor } from '../redaction/redact.ts';

export type Log = pino.Logger;

/**
 * Logs only the essential fields of an error: libraries attach whole connections, with their keys,
 * to errors.
 */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const code = 'code' in error ? error.code : undefined;
  return {
    type: error.name,
    message: error.message,
    code,
    stack: error.stack,
    ...(error.cause instanceof Error && { cause: describeError(error.cause) }),
  };
}

export function createLog(options: { level: string; destination?: pino.DestinationStream; redact?: Redactor }): Log {
  const { redact = builtInRedactor } = options;
  const settings: pino.LoggerOptions = {
    level: options.level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    messageKey: 'message',
    serializers: { error: describeError, err: describeError },
    formatters: { level: (label) => ({ level: label }) },
    hooks: { streamWrite: (line) => `${redact.json(line.trimEnd())}\n` },
  };
  return options.destination ? pino(settings, options.destination) : pino(settings);
}
