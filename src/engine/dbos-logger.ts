/** DBOS's own log lines, on our log. Its life cycle chatter is ours to debug with, so it says nothing unless asked. */
import type { DLogger } from '@dbos-inc/dbos-sdk';
import type { EngineLog } from './engine-log.ts';

export function dbosLogger(log: EngineLog): DLogger {
  const fields = { component: 'dbos' };
  return {
    debug: (entry) => log.debug(fields, String(entry)),
    info: (entry) => log.debug(fields, String(entry)),
    warn: (entry) => log.warn(fields, String(entry)),
    error: (entry, metadata) => log.error({ ...fields, err: metadata?.error ?? metadata?.stack }, String(entry)),
  };
}
