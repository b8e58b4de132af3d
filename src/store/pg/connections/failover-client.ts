/**
 * A connection to PostgreSQL whose URL may list several servers. It connects to a server that
 * qualifies. It breaks once its server refuses writes, so that its pool connects again, to another
 * server of the URL or through an address that has moved to another server.
 */
import type { Socket } from 'node:net';
import pg from 'pg';
import { type DatabaseUrl, parseDatabaseUrl } from '../../../base/network/database-url.ts';
import { type FoundServer, findServer } from './find-server.ts';

/** SQLSTATE read_only_sql_transaction. */
export const readOnlyState = '25006';

/** Fields of `pg.Client` that its declared type lacks. */
interface ClientState {
  connection: {
    stream: Socket;
    emit(event: 'end'): void;
    on(event: 'errorMessage', listener: (message: { code?: string }) => void): void;
  };
  connectionParameters: { host: string; port: number };
  _ending: boolean;
}

/** Whether a connection must search the servers of the URL for one that qualifies. */
export const needsSearch = ({ urls, target }: DatabaseUrl): boolean => urls.length > 1 || target !== 'any';

/** Connections that open at the same time share one search. */
const searches = new Map<string, Promise<FoundServer>>();

function searchOnce(config: pg.ClientConfig, address: DatabaseUrl): Promise<FoundServer> {
  const key = config.connectionString ?? '';
  const running = searches.get(key);
  if (running) return running;
  const search = findServer(config, address).finally(() => searches.delete(key));
  searches.set(key, search);
  return search;
}

/** The default of `pg` for a configuration without a URL. */
const localServer = 'postgres://localhost';

export class FailoverClient extends pg.Client {
  readonly #config: pg.ClientConfig;
  readonly #address: DatabaseUrl;
  readonly #idleTransactionMs: number | undefined;

  constructor(config: pg.ClientConfig = {}) {
    const address = parseDatabaseUrl(config.connectionString ?? localServer);
    const { idle_in_transaction_session_timeout, ...loginConfig } = config;
    super({ ...loginConfig, connectionString: address.urls[0] });
    this.#config = loginConfig;
    this.#idleTransactionMs = idle_in_transaction_session_timeout;
    this.#address = address;
    // An error between the login and the caller's own listener must not end the process. The next
    // statement reports it.
    this.on('error', () => {});
    const { connection } = this as unknown as ClientState;
    connection.on('errorMessage', ({ code }) => {
      if (code === readOnlyState) connection.stream.destroy();
    });
    // During a search pg does not listen yet, and an error without a listener ends the process.
    if (needsSearch(address)) connection.stream.on('error', () => {});
  }

  override connect(): Promise<this>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<this> | undefined {
    const connecting = this.#connect();
    if (!callback) return connecting;
    connecting.then(() => callback(undefined as unknown as Error), callback);
  }

  async #connect(): Promise<this> {
    if (needsSearch(this.#address)) await this.#chooseServer();
    await super.connect();
    // A pooler refuses settings at login.
    if (this.#idleTransactionMs !== undefined)
      await this.query(`set idle_in_transaction_session_timeout = ${Number(this.#idleTransactionMs)}`);
    return this;
  }

  async #chooseServer(): Promise<void> {
    const state = this as unknown as ClientState;
    try {
      const { host, port } = await searchOnce(this.#config, this.#address);
      if (state._ending || state.connection.stream.destroyed) throw new Error('Connection terminated');
      Object.assign(state.connectionParameters, { host, port });
      Object.assign(this, { host, port });
    } catch (error) {
      // The socket was never opened, so it does not report its end itself.
      state.connection.emit('end');
      throw error;
    }
  }
}
