/**
 * A typed client for the CLI, the console and tests. The caller passes the route table: the CLI and
 * the console pass a generated one, so that they load no schemas.
 */
import { pause, systemClock } from '../base/clock.ts';
import type { Problem } from './errors/problem.ts';
import type { BodyOf, ParamsOf, QueryOf, ReplyOf } from './route.ts';
import type { OperationName, Routes } from './routes.ts';

export type RouteAddresses = Record<string, { readonly method: string; readonly path: string }>;

/** Thrown if the server answers with a problem. */
export class RequestRefused extends Error {
  override name = 'RequestRefused';
  readonly problem: Problem;
  constructor(problem: Problem) {
    super(`${problem.title}: ${problem.detail}`);
    this.problem = problem;
  }
}

/** Replaces `retry_after_seconds` in a remedy of the catalogue by the value in the problem. */
export const fillRemedy = (remedy: string, { retry_after_seconds }: Problem): string =>
  retry_after_seconds === undefined ? remedy : remedy.replaceAll('`retry_after_seconds`', `${retry_after_seconds} s`);

/** Thrown if there is no answer, or the answer is not from a Slipway server. */
export class ServerUnreachable extends Error {
  override name = 'ServerUnreachable';
}

type Maybe<Key extends string, T> = T extends undefined
  ? { [K in Key]?: undefined }
  : undefined extends T
    ? { [K in Key]?: T }
    : { [K in Key]: T };
export type CallInput<Name extends OperationName> = Maybe<'params', ParamsOf<Routes[Name]>> &
  (QueryOf<Routes[Name]> extends undefined ? { query?: undefined } : { query?: QueryOf<Routes[Name]> }) &
  (Routes[Name] extends { body_optional: true }
    ? { body?: BodyOf<Routes[Name]> }
    : Maybe<'body', BodyOf<Routes[Name]>>) & {
    idempotency_key?: string;
    headers?: Record<string, string>;
    signal?: AbortSignal;
  };

export interface Client {
  call<Name extends OperationName>(name: Name, input: CallInput<Name>): Promise<ReplyOf<Routes[Name]>>;
  /** The URL of a request that the caller sends itself, such as a stream. */
  url(name: OperationName, input?: { params?: Record<string, string>; query?: Record<string, unknown> }): string;
  /** The headers that authorize such a request. */
  headers(): Record<string, string>;
}

export function fillPath(
  path: string,
  params: Record<string, string> = {},
  query: Record<string, unknown> = {},
): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, key: string) => encodeURIComponent(params[key] ?? ''));
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined) search.set(key, String(value));
  return search.size > 0 ? `${filled}?${search}` : filled;
}

export interface ClientOptions {
  base_url: string;
  token?: string;
  addresses: RouteAddresses;
  fetch?: typeof fetch;
  /**
   * How often an unanswered call is repeated. To be safe to repeat, a call that changes something
   * needs an idempotency key.
   */
  retries?: number;
}

export function createClient(options: ClientOptions): Client {
  const send = options.fetch ?? fetch;
  const headers = (): Record<string, string> => (options.token ? { authorization: `Bearer ${options.token}` } : {});
  const findRoute = (name: string) => {
    const route = options.addresses[name];
    if (!route) throw new Error(`no route named ${name}`);
    return route;
  };

  const callOnce = async (name: string, input: CallInput<OperationName>) => {
    const route = findRoute(name);
    const url =
      options.base_url +
      fillPath(route.path, input.params as Record<string, string>, input.query as Record<string, unknown>);
    const extraHeaders: Record<string, string> = { ...input.headers };
    if (input.body !== undefined) extraHeaders['content-type'] ??= 'application/json';
    if (input.idempotency_key) extraHeaders['idempotency-key'] = input.idempotency_key;
    const reply = await send(url, {
      method: route.method,
      headers: { ...headers(), ...extraHeaders },
      ...(input.body !== undefined && { body: JSON.stringify(input.body) }),
      ...(input.signal && { signal: input.signal }),
    });
    const text = await reply.text();
    const kind = reply.headers.get('content-type') ?? '';
    if (kind.includes('problem+json')) throw new RequestRefused(JSON.parse(text));
    if (!reply.ok) throw new ServerUnreachable(`${url} answered ${reply.status} and is not a Slipway server`);
    return kind.includes('json') ? JSON.parse(text) : text;
  };

  return {
    async call(name, input) {
      for (let retriesLeft = options.retries ?? 0; ; retriesLeft--) {
        try {
          return await callOnce(name, input as CallInput<OperationName>);
        } catch (error) {
          if (error instanceof RequestRefused || error instanceof ServerUnreachable || input.signal?.aborted)
            throw error;
          if (retriesLeft <= 0) throw new ServerUnreachable(`cannot reach ${options.base_url}`, { cause: error });
          await pause(systemClock, 250, input.signal);
        }
      }
    },
    url: (name, input = {}) => options.base_url + fillPath(findRoute(name).path, input.params, input.query),
    headers,
  };
}
