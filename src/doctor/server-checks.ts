/**
 * Checks which server answers and whether it accepts us. Sends no secret before the server has
 * proven its identity.
 */
import { createPublicKey, randomBytes, verify } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { trustedWith } from '../base/network/trusted-certificates.ts';
import { continuityOf, isTaskKeys } from '../contract/agent/task-key-chain.ts';
import { canonicalJson } from '../contract/canonical-json.ts';
import { errorName, faultOfError } from '../contract/errors/path-faults.ts';
import type { Checkup, LayerCheck, Ping } from '../contract/supervision/checkup.ts';
import { type DoctorTarget, type Found, failed, type Outcome, skipped, well } from './examination.ts';
import { within } from './path-checks.ts';

interface Question {
  method: 'GET' | 'POST';
  path: string;
  bearer?: string | null;
  body?: object;
}

/** The requested body, or an outcome that ends the layer. */
type Heard = { body: Record<string, unknown> } | { outcome: Outcome };

interface Reply {
  status: number;
  text: string;
}

const maxReplyBytes = 1024 * 1024;
const shownBytes = 120;

const exchange = ({ url, ca, correlation_id, signal }: DoctorTarget, { method, path, bearer, body }: Question) =>
  new Promise<Reply>((resolve, reject) => {
    const open = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const text = body && JSON.stringify(body);
    const request = open(`${url.href.replace(/\/+$/, '')}${path}`, {
      method,
      // A new connection: a kept-alive one would hide what is wrong with new ones.
      agent: false,
      ca: trustedWith(ca),
      signal,
      headers: {
        accept: 'application/json',
        'x-correlation-id': correlation_id,
        ...(bearer && { authorization: `Bearer ${bearer}` }),
        ...(text && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
      },
    });
    request.on('error', reject);
    request.on('response', async (response) => {
      let heard = '';
      try {
        for await (const chunk of response.setEncoding('utf8')) {
          heard += chunk;
          if (heard.length > maxReplyBytes) throw new Error('the reply is too large');
        }
        resolve({ status: response.statusCode ?? 0, text: heard });
      } catch (error) {
        reject(error);
      }
    });
    request.end(text);
  });

function parsed(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

const isText = (value: unknown): value is string => typeof value === 'string';

const stranger = (status: number, text: string): Outcome => {
  const shown = text.slice(0, shownBytes).replaceAll(/\s+/g, ' ').trim();
  return failed('ingress_stranger', `it answered ${status} with something that is not ours${shown && `: ${shown}`}`);
};

/**
 * Sends one request over its own connection, and returns the body or the layer that failed. Times
 * out after `target.timeout_seconds`, plus `wait_seconds` if the server was asked to wait.
 */
async function ask(target: DoctorTarget, question: Question, wait_seconds = 0): Promise<Heard> {
  let reply: Reply;
  try {
    const timeout_seconds = target.timeout_seconds + wait_seconds;
    reply = await within({ ...target, timeout_seconds }, exchange(target, question));
  } catch (error) {
    const name = errorName(error) ?? '';
    const says = error instanceof Error ? error.message : String(error);
    return { outcome: failed(name === 'ETIMEDOUT' ? 'no_answer' : faultOfError(name), says) };
  }
  const body = parsed(reply.text);
  if (body && reply.status >= 200 && reply.status < 300) return { body };
  const { code, owner_layer, detail_layer, detail, title } = body ?? {};
  if (!isText(code) || !isText(owner_layer)) return { outcome: stranger(reply.status, reply.text) };
  const says = isText(detail) ? detail : isText(title) ? title : code;
  const layers = { owner_layer, ...(isText(detail_layer) && { detail_layer }) };
  return { outcome: { state: 'failed', code, says, ...layers } };
}

/** A test compares these with the route table, which cannot be bundled into the agent. */
export const doctorCalls = {
  'health-get': '/healthz',
  'session-get': '/v1/session',
  'node-checkup': '/v1/nodes/{id}/checkup',
  'node-ping': '/v1/nodes/{id}/ping',
  'node-ping-get': '/v1/nodes/{id}/ping/{task_id}',
  'agent-checkup': '/v1/agent/checkup',
  'agent-ping': '/v1/agent/ping',
  'agent-ping-get': '/v1/agent/ping/{task_id}',
} as const;

const address = (name: keyof typeof doctorCalls, params: Record<string, string> = {}) =>
  doctorCalls[name].replaceAll(/\{(\w+)\}/g, (_, key: string) => encodeURIComponent(params[key] ?? ''));

interface Identity {
  service: string;
  installation_id: string;
  nonce: string;
  public_key: string;
  signature: string;
  other_keys?: unknown;
}

const isIdentity = (value: unknown): value is Identity =>
  typeof value === 'object' &&
  value !== null &&
  ['service', 'installation_id', 'nonce', 'public_key', 'signature'].every(
    (name) => typeof (value as Record<string, unknown>)[name] === 'string',
  );

/**
 * A fresh nonce must be signed: a cached page, or one that only looks like ours, cannot do that.
 */
function isSignedNow({ signature, ...said }: Identity, nonce: string): boolean {
  if (said.service !== 'slipway' || said.nonce !== nonce) return false;
  const key = Buffer.from(said.public_key, 'base64');
  try {
    const public_key = createPublicKey({ key, format: 'der', type: 'spki' });
    return verify(null, Buffer.from(canonicalJson(said)), public_key, Buffer.from(signature, 'base64'));
  } catch {
    // A malformed key counts as not signed.
    return false;
  }
}

/**
 * The server may have rotated its key: endorsements then lead from a known key to the present one.
 */
function continues(identity: Identity, known_keys: readonly string[]): boolean {
  if (known_keys.includes(identity.public_key)) return true;
  const { other_keys: others } = identity;
  const present: unknown[] = [identity];
  if (!isTaskKeys(present) || !present[0] || !isTaskKeys(others)) return false;
  const known = others.filter(({ public_key }) => known_keys.includes(public_key));
  return continuityOf(present[0], known, others) === 'proven';
}

export async function recognise(target: DoctorTarget): Promise<Outcome> {
  const nonce = randomBytes(16).toString('hex');
  const heard = await ask(target, { method: 'GET', path: `${address('health-get')}?nonce=${nonce}` });
  if ('outcome' in heard) return heard.outcome;
  const { identity, version } = heard.body;
  if (!isIdentity(identity) || !isSignedNow(identity, nonce)) return stranger(200, JSON.stringify(heard.body));
  if (target.known_keys && !continues(identity, target.known_keys))
    return failed(
      'ingress_other_installation',
      `${identity.installation_id} answers, which is not the installation that this machine enrolled with`,
    );
  return well(`Slipway ${version} answers, installation ${identity.installation_id}`);
}

const bearerOf = ({ caller }: DoctorTarget) => (caller.kind === 'agent' ? caller.credential : caller.token);
const put = (target: DoctorTarget, question: Omit<Question, 'bearer'>, wait_seconds = 0): Promise<Heard> =>
  ask(target, { ...question, bearer: bearerOf(target) }, wait_seconds);

/** A proxy may answer in place of the server on some paths. */
const isJudged = ({ checks }: Record<string, unknown>): boolean => Array.isArray(checks);

/** Turns a check by the server into an outcome. */
const outcomeOf = (check: LayerCheck | undefined): Outcome => {
  if (!check) return skipped('the server did not say');
  if (check.ok === null) return skipped(check.detail);
  if (check.ok) return well(check.detail);
  return {
    state: 'failed',
    code: check.code ?? '',
    says: check.detail,
    ...(check.owner_layer && { owner_layer: check.owner_layer }),
    ...(check.detail_layer && { detail_layer: check.detail_layer }),
  };
};

const judged = (answer: { checks: LayerCheck[] } | null, layer: LayerCheck['layer']): Outcome =>
  outcomeOf(answer?.checks.find((check) => check.layer === layer));

export async function showCredential(target: DoctorTarget, found: Found): Promise<Outcome> {
  const { caller } = target;
  if (caller.kind === 'agent' && caller.credential === null)
    return failed('agent_not_enrolled', 'the agent of this directory has no credential');
  if (caller.kind === 'person') {
    const session = await put(target, { method: 'GET', path: address('session-get') });
    if ('outcome' in session) return session.outcome;
    const { name, role } = session.body;
    if (caller.node_id === null) return well(`the token is known: ${name}, ${role}`);
  }
  const path =
    caller.kind === 'agent' ? address('agent-checkup') : address('node-checkup', { id: caller.node_id ?? '' });
  const heard = await put(target, { method: 'GET', path });
  if ('outcome' in heard) return heard.outcome;
  if (!isJudged(heard.body)) return stranger(200, JSON.stringify(heard.body));
  found.checkup = heard.body as unknown as Checkup;
  return judged(found.checkup, 'credential');
}

export const passFence = async (_: DoctorTarget, { checkup }: Found): Promise<Outcome> => judged(checkup, 'fence');
export const beHeard = async (_: DoctorTarget, { checkup }: Found): Promise<Outcome> => judged(checkup, 'heartbeat');

/** Not a failure of any layer: the caller may not request a ping, or the machine has no agent. */
const pingNotPossible = ['role_insufficient', 'scope_insufficient', 'no_agent'];

/** How long the server may hold one poll; proxies cut longer ones. */
const pollSeconds = 5;

/** Polls the ping until the layer can be judged. */
async function follow(target: DoctorTarget, found: Found, layer: 'claim' | 'result'): Promise<Outcome> {
  const { caller } = target;
  const isOpen = () => found.ping?.checks.some((check) => check.layer === layer && check.ok === null) ?? false;
  while (found.ping && isOpen() && !target.signal.aborted) {
    const { task_id } = found.ping;
    const at =
      caller.kind === 'agent'
        ? address('agent-ping-get', { task_id })
        : address('node-ping-get', { id: caller.node_id ?? '', task_id });
    const heard = await put(target, { method: 'GET', path: `${at}?wait=${pollSeconds}` }, pollSeconds);
    if ('outcome' in heard) return heard.outcome;
    if (!isJudged(heard.body)) return stranger(200, JSON.stringify(heard.body));
    found.ping = heard.body as unknown as Ping;
  }
  return judged(found.ping, layer);
}

export async function beClaimed(target: DoctorTarget, found: Found): Promise<Outcome> {
  const { caller, timeout_seconds: within_seconds } = target;
  const path = caller.kind === 'agent' ? address('agent-ping') : address('node-ping', { id: caller.node_id ?? '' });
  const heard = await put(target, { method: 'POST', path, body: { within_seconds } });
  if ('outcome' in heard) {
    const { outcome } = heard;
    const barred = outcome.state === 'failed' && pingNotPossible.includes(outcome.code);
    return barred ? skipped(`no ping was requested: ${outcome.says}`) : outcome;
  }
  if (!isJudged(heard.body)) return stranger(202, JSON.stringify(heard.body));
  found.ping = heard.body as unknown as Ping;
  return follow(target, found, 'claim');
}

export const beAnswered = (target: DoctorTarget, found: Found): Promise<Outcome> =>
  found.ping ? follow(target, found, 'result') : Promise.resolve(skipped('no ping was requested'));
