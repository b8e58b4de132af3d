/**
 * COPY between PostgreSQL and this process, in text format. `pg` implements only its messages. The
 * rows are never all in memory: a slow reader pauses the connection, and a slow connection pauses
 * the source.
 */
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type pg from 'pg';

/** The part of a connection of `pg` that COPY uses. Its declared type has only `query`. */
interface CopyConnection {
  stream: Socket;
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(message: string): void;
}

/** PostgreSQL sends one message per row. Rows are joined into chunks of about this size. */
const bytesPerChunk = 64 * 1024;
const bufferedChunks = 4;

const parseRowCount = (tag: string): number => Number(tag.replace(/^COPY /, ''));

/** The callbacks that `pg` calls for a running statement; most do not occur in COPY. */
class CopyStatement {
  protected readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
  submit(connection: unknown): void {
    (connection as CopyConnection).query(this.text);
  }
  handleRowDescription(): void {}
  handleDataRow(): void {}
  handlePortalSuspended(): void {}
  handleEmptyQuery(): void {}
}

class CopyOut extends CopyStatement {
  readonly rows = Promise.withResolvers<number>();
  readonly data: Readable;
  #parts: Buffer[] = [];
  #bytes = 0;
  #connection: CopyConnection | undefined;

  constructor(text: string) {
    super(text);
    this.rows.promise.catch(() => {});
    this.data = new Readable({
      objectMode: true,
      highWaterMark: bufferedChunks,
      read: () => void this.#connection?.stream.resume(),
      destroy: (error, done) => {
        // The caller ends the connection if it does not read to the end.
        this.#connection?.stream.resume();
        done(error);
      },
    });
  }
  override submit(connection: unknown): void {
    this.#connection = connection as CopyConnection;
    super.submit(connection);
  }
  #flush(): void {
    if (this.#bytes === 0 || this.data.destroyed) return;
    const wantsMore = this.data.push(Buffer.concat(this.#parts));
    this.#parts = [];
    this.#bytes = 0;
    if (!wantsMore) this.#connection?.stream.pause();
  }
  handleCopyData({ chunk }: { chunk: Buffer }): void {
    // The parser reuses its buffer.
    this.#parts.push(Buffer.from(chunk));
    this.#bytes += chunk.length;
    if (this.#bytes >= bytesPerChunk) this.#flush();
  }
  handleCommandComplete({ text }: { text: string }): void {
    this.#flush();
    this.rows.resolve(parseRowCount(text));
  }
  handleReadyForQuery(): void {
    this.data.push(null);
  }
  handleError(error: Error): void {
    this.rows.reject(error);
    this.data.destroy(error);
  }
}

/**
 * Runs `copy … to stdout`. At the end of `data`, `rows` resolves with the number of rows. A caller
 * that stops reading earlier must end the connection.
 */
export function copyOut(client: pg.Client, text: string): { data: AsyncIterable<Buffer>; rows: Promise<number> } {
  const { data, rows } = client.query(new CopyOut(text));
  return { data, rows: rows.promise };
}

class CopyIn extends CopyStatement {
  readonly rows = Promise.withResolvers<number>();
  readonly #source: AsyncIterable<Buffer>;
  #hasFailed = false;
  #count = 0;

  constructor(text: string, source: AsyncIterable<Buffer>) {
    super(text);
    this.#source = source;
  }
  handleCopyInResponse(connection: CopyConnection): void {
    this.#send(connection).then(
      () => connection.endCopyFrom(),
      (error: unknown) => {
        this.rows.reject(error);
        connection.sendCopyFail('the rows could not be read');
      },
    );
  }
  async #send(connection: CopyConnection): Promise<void> {
    const { stream } = connection;
    for await (const chunk of this.#source) {
      if (this.#hasFailed) return;
      connection.sendCopyFromChunk(chunk);
      if (stream.writableNeedDrain)
        await new Promise<void>((resolve) => {
          const done = () => {
            stream.off('drain', done).off('close', done);
            resolve();
          };
          stream.on('drain', done).on('close', done);
        });
    }
  }
  handleCommandComplete({ text }: { text: string }): void {
    this.#count = parseRowCount(text);
  }
  handleReadyForQuery(): void {
    this.rows.resolve(this.#count);
  }
  handleError(error: Error): void {
    this.#hasFailed = true;
    this.rows.reject(error);
  }
}

/** Runs `copy … from stdin` with the rows of `source`. Returns the number of rows. */
export const copyIn = (client: pg.Client, text: string, source: AsyncIterable<Buffer>): Promise<number> =>
  client.query(new CopyIn(text, source)).rows.promise;
