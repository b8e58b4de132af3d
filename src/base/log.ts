/** Structured logs: JSON lines with the five ids spelled as everywhere else, and secrets struck out. */
import pino from 'pino';

export type Log = pino.Logger;

const secretPaths = [
  'token',
  'credential',
  'enrollment_token',
  'join_token',
  'password',
  '*.token',
  '*.credential',
  '*.enrollment_token',
  '*.join_token',
  '*.password',
  'headers.authorization',
  'headers.cookie',
  '*.headers.authorization',
  '*.headers.cookie',
];

export function createLog(options: { level: string; destination?: pino.DestinationStream }): Log {
  const settings: pino.LoggerOptions = {
    level: options.level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    messageKey: 'message',
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: secretPaths, censor: '[struck out]' },
  };
  return options.destination ? pino(settings, options.destination) : pino(settings);
}
