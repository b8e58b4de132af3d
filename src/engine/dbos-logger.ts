/** DBOS's own log lines, on our log. Its life cycle chatter is ours to debug with, so it says nothing unless asked. */
import type { DLogger } from '@dbos-inc/dbos-sdk';
import type { EngineLog } from './engine-log.ts';

export function dbosLogger(log: EngineLog): DLogger {
  const fields = { component: 'dbos' };
  return {
    debug: (entry) => log.debug(fields, String(entry)),
    info: (entry) => log.debug(fields, String(entry)),
    // Shutting down while runs are under way is what durable execution is for.
    warn: (entry) => log[String(entry).startsWith('Shutting down while') ? 'debug' : 'warn'](fields, String(entry)),
    error: (entry, metadata) => log.error({ ...fields, err: metadata?.error ?? metadata?.stack }, String(entry)),
  };
}
