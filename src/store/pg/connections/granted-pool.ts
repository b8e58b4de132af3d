/**
 * A pool for a database that may refuse further connections (`max_connections`). pg would fail the
 * statement whose connection is refused. This pool lets the statement wait for an open connection
 * instead, and tries to open more later.
 */
import pg from 'pg';
import { type Clock, systemClock } from '../../../base/clock.ts';

/** SQLSTATE too_many_connections. */
const refusedState = '53300';
const retryAfterMs = 5_000;
/** Longer than `retryAfterMs`, so that `isShort` stays true while refusals last. */
const shortForMs = 3 * retryAfterMs;

type Callback = Parameters<pg.Pool['connect']>[0];

/** With several servers in the URL, the refusal is the cause of the failed search. */
const isTooManyConnections = (error: unknown): boolean =>
  error instanceof Error &&
  (('code' in error && error.code === refusedState) ||
    isTooManyConnections(error instanceof AggregateError ? error.errors[0] : error.cause));

type ClientClass = new (config?: pg.ClientConfig) => pg.Client;

/**
 * Calls `onRefusal` before the pool handles a refusal, because the pool reacts by opening the next
 * connection.
 */
const withRefusalListener = (Client: ClientClass, onRefusal: () => void): ClientClass =>
  class extends Client {
    override connect(): Promise<pg.Client>;
    override connect(callback: (error: Error) => void): void;
    override connect(callback?: (error: Error) => void): Promise<pg.Client> | undefined {
      if (!callback) return super.connect();
      super.connect((error: Error) => {
        if (isTooManyConnections(error)) onRefusal();
        callback(error);
      });
      return undefined;
    }
  };

export class GrantedPool extends pg.Pool {
  readonly #clock: Clock;
  readonly #max: number;
  #cancelRetry: (() => void) | undefined;
  #refusedMs = Number.NEGATIVE_INFINITY;
  /** Open connections. `totalCount` also has those that are still opening. */
  #granted = 0;
  /** Whether the last attempt was refused and no connection is open or opening. */
  #hasNone = false;

  constructor(config: pg.PoolConfig & { max: number }, clock: Clock = systemClock) {
    let pauseOpening = () => {};
    const Client = withRefusalListener((config.Client ?? pg.Client) as ClientClass, () => pauseOpening());
    super({ ...config, Client });
    this.#clock = clock;
    this.#max = config.max;
    pauseOpening = () => this.#pauseOpening();
    this.on('connect', () => {
      this.#granted++;
      this.#hasNone = false;
      this.options.max = Math.max(this.options.max, this.#granted);
    });
    this.on('remove', () => {
      this.#granted--;
    });
  }

  /** Whether the database lately refused a connection, and less than half of `max` are open. */
  isShort(): boolean {
    return this.#clock.monotonicMs() - this.#refusedMs < shortForMs && this.#granted < this.#max / 2;
  }

  override connect(): Promise<pg.PoolClient>;
  override connect(callback: Callback): void;
  override connect(callback?: Callback): Promise<pg.PoolClient> | undefined {
    if (callback) {
      this.#connect(callback);
      return undefined;
    }
    return new Promise((resolve, reject) =>
      this.#connect((error, client) => (client ? resolve(client) : reject(error))),
    );
  }

  #connect(callback: Callback): void {
    super.connect((error, client, done) => {
      if (isTooManyConnections(error) && !this.#hasNone) return this.#connect(callback);
      return callback(error, client, done);
    });
  }

  #pauseOpening(): void {
    this.#refusedMs = this.#clock.monotonicMs();
    // The total still includes the refused connection.
    this.#hasNone = this.totalCount <= 1;
    this.options.max = Math.max(1, this.#granted);
    this.#cancelRetry?.();
    this.#cancelRetry = this.#clock.after(retryAfterMs, () => {
      this.options.max = this.#max;
    });
  }

  override end(): Promise<void>;
  override end(callback: () => void): void;
  override end(callback?: () => void): Promise<void> | undefined {
    this.#cancelRetry?.();
    if (!callback) return super.end();
    super.end(callback);
    return undefined;
  }
}
