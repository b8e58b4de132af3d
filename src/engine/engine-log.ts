/** The log calls that the engine makes; a pino logger fits. */
export interface EngineLog {
  debug(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export const silentLog: EngineLog = { debug: () => {}, warn: () => {}, error: () => {} };
