/**
 * A server's certificate and key, followed as they change: renewed files are used for new connections without a restart, and
 * kept connections go on. Files that do not fit each other change nothing.
 */
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { Clock } from '../clock.ts';
import type { Log } from '../telemetry/log.ts';

export interface TlsSettings {
  tls_cert: string | null;
  tls_key: string | null;
}

export interface TlsPair {
  cert: Buffer;
  key: Buffer;
}

/** What `https.Server` has; a plain one has not. */
interface Reloadable {
  setSecureContext?(pair: TlsPair): void;
}

export interface TlsFiles extends TlsPair {
  /** Looks every few seconds, and at once on SIGHUP. Returns the way to stop. */
  follow(server: object, options: { clock: Clock; log: Pick<Log, 'info' | 'warn'>; every_ms?: number }): () => void;
}

const usualEveryMs = 10_000;

const isSame = (a: TlsPair, b: TlsPair) => a.cert.equals(b.cert) && a.key.equals(b.key);

/** Null where no TLS is asked for. */
export async function openTlsFiles({ tls_cert, tls_key }: TlsSettings): Promise<TlsFiles | null> {
  if (tls_cert === null || tls_key === null) return null;
  const read = async (): Promise<TlsPair> => ({ cert: await readFile(tls_cert), key: await readFile(tls_key) });
  const first = await read();
  return {
    ...first,
    follow(server, { clock, log, every_ms = usualEveryMs }) {
      let seen = first;
      let unreadable = false;
      let isChecking = false;
      const files = { tls_cert, tls_key };

      const check = async () => {
        let next: TlsPair;
        try {
          next = await read();
          unreadable = false;
        } catch (error) {
          if (!unreadable) log.warn({ error, ...files }, 'cannot read the TLS files; the former ones stay in use');
          unreadable = true;
          return;
        }
        if (isSame(seen, next)) return;
        // Remembered also when it is bad, so that the same files are complained about once.
        seen = next;
        try {
          createSecureContext(next);
        } catch (error) {
          log.warn({ error, ...files }, 'the new TLS files cannot be used; the former ones stay in use');
          return;
        }
        (server as Reloadable).setSecureContext?.(next);
        log.info(files, 'the new TLS files are in use');
      };
      /** One at a time. A failure is logged where it happens. */
      const checkNow = async () => {
        if (isChecking) return;
        isChecking = true;
        try {
          await check();
        } finally {
          isChecking = false;
        }
      };

      let cancel: () => void;
      const lookLater = () => {
        cancel = clock.after(every_ms, () => {
          void checkNow();
          lookLater();
        });
      };
      lookLater();
      process.on('SIGHUP', checkNow);
      return () => {
        cancel();
        process.off('SIGHUP', checkNow);
      };
    },
  };
}
