/**
 * Watches a server's certificate and key. New connections use renewed files without a restart, and
 * open connections continue. A certificate and key that do not match are ignored.
 */
import { X509Certificate } from 'node:crypto';
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

/** `https.Server` has this method; a plain HTTP server does not. */
interface Reloadable {
  setSecureContext?(pair: TlsPair): void;
}

export interface TlsFiles extends TlsPair {
  /** The validity period of the certificate that new connections use. */
  validity(): { starts_at: Date; ends_at: Date };
  /** Checks every few seconds, and at once on SIGHUP. Returns a function that stops watching. */
  follow(server: object, options: { clock: Clock; log: Pick<Log, 'info' | 'warn'>; every_ms?: number }): () => void;
}

const defaultEveryMs = 10_000;

const validityOf = ({ cert }: TlsPair) => {
  const { validFromDate, validToDate } = new X509Certificate(cert);
  return { starts_at: validFromDate, ends_at: validToDate };
};

const isSame = (a: TlsPair, b: TlsPair) => a.cert.equals(b.cert) && a.key.equals(b.key);

/** Returns null if TLS is not configured. */
export async function openTlsFiles({ tls_cert, tls_key }: TlsSettings): Promise<TlsFiles | null> {
  if (tls_cert === null || tls_key === null) return null;
  const read = async (): Promise<TlsPair> => ({ cert: await readFile(tls_cert), key: await readFile(tls_key) });
  const first = await read();
  let inUse = first;
  return {
    ...first,
    validity: () => validityOf(inUse),
    follow(server, { clock, log, every_ms = defaultEveryMs }) {
      let lastRead = first;
      let isUnreadable = false;
      let isChecking = false;
      const files = { tls_cert, tls_key };

      const check = async () => {
        let next: TlsPair;
        try {
          next = await read();
          isUnreadable = false;
        } catch (error) {
          if (!isUnreadable) log.warn({ error, ...files }, 'cannot read the TLS files; the previous ones stay in use');
          isUnreadable = true;
          return;
        }
        if (isSame(lastRead, next)) return;
        // Remember bad files too, so that each pair is reported only once.
        lastRead = next;
        try {
          createSecureContext(next);
        } catch (error) {
          log.warn({ error, ...files }, 'the new TLS files cannot be used; the previous ones stay in use');
          return;
        }
        (server as Reloadable).setSecureContext?.(next);
        inUse = next;
        log.info(files, 'the new TLS files are in use');
      };
      /** Runs one check at a time; `check` logs its own failures. */
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
      const scheduleCheck = () => {
        cancel = clock.after(every_ms, () => {
          void checkNow();
          scheduleCheck();
        });
      };
      scheduleCheck();
      process.on('SIGHUP', checkNow);
      return () => {
        cancel();
        process.off('SIGHUP', checkNow);
      };
    },
  };
}
