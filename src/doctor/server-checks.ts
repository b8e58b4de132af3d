/**
 * Checks which server answers, and whether it accepts the caller. Sends no secret before the server
 * has proven its identity.
 */
import { createPublicKey, randomBytes, verify } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { trustedCertificates } from '../base/network/trusted-certificates.ts';
import { continuityOf, isTaskKeys } from '../contract/agent/task-key-chain.ts';
import { canonicalJson } from '../contract/canonical-json.ts';
import { errorName, faultOfError } from '../contract/errors/path-faults.ts';
import type { Checkup, LayerCheck, Ping } from '../contract/supervision/checkup.ts';
import { type DoctorTarget, type ExaminationState, fail, type Outcome, pass, skip } from './examination.ts';
import { withTimeout } from './path-checks.ts';

interface Call {
  method: 'GET' | 'POST';
  path: string;
  bearer?: string | null;
  body?: object;
}

/** The body of the answer, or an outcome that ends the layer. */
type CallResult = { body: Record<string, unknown> } | { outcome: Outcome };

interface Reply {
  status: number;
  text: string;
}

const maxReplyBytes = 1024 * 1024;
const maxShownBytes = 120;

const exchange = ({ url, ca, correlation_id, signal }: DoctorTarget, { method, path, bearer, body }: Call) =>
  new Promise<Reply>((resolve, reject) => {
    const open = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const text = body && JSON.stringify(body);
    const request = open(`${url.href.replace(/\/+$/, '')}${path}`, {
      method,
      // Opens a new connection: a kept-alive one would hide a fault that affects new connections.
      agent: false,
      ca: trustedCertificates(ca),
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
      let received = '';
      try {
        for await (const chunk of response.setEncoding('utf8')) {
          received += chunk;
          if (received.length > maxReplyBytes) throw new Error('the reply is too large');
        }
        resolve({ status: response.statusCode ?? 0, text: received });
      } catch (error) {
        reject(error);
      }
    });
    request.end(text);
  });

function parseObject(text: string): Record<string, unknown> | null {
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

const notSlipway = (status: number, text: string): Outcome => {
  const shown = text.slice(0, maxShownBytes).replaceAll(/\s+/g, ' ').trim();
  return fail(
    'ingress_stranger',
    `the server answered ${status}, but it is not a Slipway server${shown && `: ${shown}`}`,
  );
};

/**
 * Sends one request over its own connection. Returns the body, or the outcome of a failure. Times
 * out after `target.timeout_seconds`, plus the `wait_seconds` that the server may hold the request.
 */
async function send(target: DoctorTarget, call: Call, wait_seconds = 0): Promise<CallResult> {
  let reply: Reply;
  try {
    const timeout_seconds = target.timeout_seconds + wait_seconds;
    reply = await withTimeout({ ...target, timeout_seconds }, exchange(target, call));
  } catch (error) {
    const name = errorName(error) ?? '';
    const message = error instanceof Error ? error.message : String(error);
    return { outcome: fail(name === 'ETIMEDOUT' ? 'no_answer' : faultOfError(name), message) };
  }
  const body = parseObject(reply.text);
  if (body && reply.status >= 200 && reply.status < 300) return { body };
  const { code, owner_layer, detail_layer, detail, title } = body ?? {};
  if (!isText(code) || !isText(owner_layer)) return { outcome: notSlipway(reply.status, reply.text) };
  const message = isText(detail) ? detail : isText(title) ? title : code;
  const layers = { owner_layer, ...(isText(detail_layer) && { detail_layer }) };
  return { outcome: { state: 'failed', code, says: message, ...layers } };
}

/** Copies of the route table, which cannot be bundled into the agent. A test compares them. */
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

const pathOf = (name: keyof typeof doctorCalls, params: Record<string, string> = {}) =>
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

/** Verifies the signature over a fresh nonce, which a cached or imitated answer cannot have. */
function isFreshlySigned({ signature, ...claims }: Identity, nonce: string): boolean {
  if (claims.service !== 'slipway' || claims.nonce !== nonce) return false;
  const key = Buffer.from(claims.public_key, 'base64');
  try {
    const public_key = createPublicKey({ key, format: 'der', type: 'spki' });
    return verify(null, Buffer.from(canonicalJson(claims)), public_key, Buffer.from(signature, 'base64'));
  } catch {
    // A malformed key counts as not signed.
    return false;
  }
}

/**
 * The server may have rotated its key. Then endorsements must lead from a known key to the current
 * one.
 */
function isKnownInstallation(identity: Identity, known_keys: readonly string[]): boolean {
  if (known_keys.includes(identity.public_key)) return true;
  const { other_keys: others } = identity;
  const currentKeys: unknown[] = [identity];
  if (!isTaskKeys(currentKeys) || !currentKeys[0] || !isTaskKeys(others)) return false;
  const known = others.filter(({ public_key }) => known_keys.includes(public_key));
  return continuityOf(currentKeys[0], known, others) === 'proven';
}

export async function checkServerIdentity(target: DoctorTarget): Promise<Outcome> {
  const nonce = randomBytes(16).toString('hex');
  const result = await send(target, { method: 'GET', path: `${pathOf('health-get')}?nonce=${nonce}` });
  if ('outcome' in result) return result.outcome;
  const { identity, version } = result.body;
  if (!isIdentity(identity) || !isFreshlySigned(identity, nonce)) return notSlipway(200, JSON.stringify(result.body));
  if (target.known_keys && !isKnownInstallation(identity, target.known_keys))
    return fail(
      'ingress_other_installation',
      `${identity.installation_id} answers, but this machine enrolled with another installation`,
    );
  return pass(`Slipway ${version} answers, installation ${identity.installation_id}`);
}

const bearerOf = ({ caller }: DoctorTarget) => (caller.kind === 'agent' ? caller.credential : caller.token);
const sendAsCaller = (target: DoctorTarget, call: Omit<Call, 'bearer'>, wait_seconds = 0): Promise<CallResult> =>
  send(target, { ...call, bearer: bearerOf(target) }, wait_seconds);

/** Rejects other answers: a proxy may answer in place of the server on some paths. */
const hasChecks = ({ checks }: Record<string, unknown>): boolean => Array.isArray(checks);

/** Turns a check by the server into an outcome. */
const outcomeOf = (check: LayerCheck | undefined): Outcome => {
  if (!check) return skip('the server sent no result for this layer');
  if (check.ok === null) return skip(check.detail);
  if (check.ok) return pass(check.detail);
  return {
    state: 'failed',
    code: check.code ?? '',
    says: check.detail,
    ...(check.owner_layer && { owner_layer: check.owner_layer }),
    ...(check.detail_layer && { detail_layer: check.detail_layer }),
  };
};

const layerOutcome = (answer: { checks: LayerCheck[] } | null, layer: LayerCheck['layer']): Outcome =>
  outcomeOf(answer?.checks.find((check) => check.layer === layer));

export async function checkCredential(target: DoctorTarget, state: ExaminationState): Promise<Outcome> {
  const { caller } = target;
  if (caller.kind === 'agent' && caller.credential === null)
    return fail('agent_not_enrolled', 'the agent of this directory has no credential');
  if (caller.kind === 'person') {
    const session = await sendAsCaller(target, { method: 'GET', path: pathOf('session-get') });
    if ('outcome' in session) return session.outcome;
    const { name, role } = session.body;
    if (caller.node_id === null) return pass(`the server accepts the token: ${name}, ${role}`);
  }
  const path = caller.kind === 'agent' ? pathOf('agent-checkup') : pathOf('node-checkup', { id: caller.node_id ?? '' });
  const result = await sendAsCaller(target, { method: 'GET', path });
  if ('outcome' in result) return result.outcome;
  if (!hasChecks(result.body)) return notSlipway(200, JSON.stringify(result.body));
  state.checkup = result.body as unknown as Checkup;
  return layerOutcome(state.checkup, 'credential');
}

export const checkFence = async (_: DoctorTarget, { checkup }: ExaminationState): Promise<Outcome> =>
  layerOutcome(checkup, 'fence');
export const checkHeartbeat = async (_: DoctorTarget, { checkup }: ExaminationState): Promise<Outcome> =>
  layerOutcome(checkup, 'heartbeat');

/**
 * Codes that are no failure of a layer: the caller may not request a ping, or there is no agent.
 */
const pingNotPossible = ['role_insufficient', 'scope_insufficient', 'no_agent'];

/** How long the server may hold one poll. Proxies cut longer requests. */
const pollSeconds = 5;

/** Polls the ping until the layer can be judged. */
async function pollPing(target: DoctorTarget, state: ExaminationState, layer: 'claim' | 'result'): Promise<Outcome> {
  const { caller } = target;
  const isUndecided = () => state.ping?.checks.some((check) => check.layer === layer && check.ok === null) ?? false;
  while (state.ping && isUndecided() && !target.signal.aborted) {
    const { task_id } = state.ping;
    const path =
      caller.kind === 'agent'
        ? pathOf('agent-ping-get', { task_id })
        : pathOf('node-ping-get', { id: caller.node_id ?? '', task_id });
    const result = await sendAsCaller(target, { method: 'GET', path: `${path}?wait=${pollSeconds}` }, pollSeconds);
    if ('outcome' in result) return result.outcome;
    if (!hasChecks(result.body)) return notSlipway(200, JSON.stringify(result.body));
    state.ping = result.body as unknown as Ping;
  }
  return layerOutcome(state.ping, layer);
}

export async function checkTaskClaim(target: DoctorTarget, state: ExaminationState): Promise<Outcome> {
  const { caller, timeout_seconds: within_seconds } = target;
  const path = caller.kind === 'agent' ? pathOf('agent-ping') : pathOf('node-ping', { id: caller.node_id ?? '' });
  const result = await sendAsCaller(target, { method: 'POST', path, body: { within_seconds } });
  if ('outcome' in result) {
    const { outcome } = result;
    const isImpossible = outcome.state === 'failed' && pingNotPossible.includes(outcome.code);
    return isImpossible ? skip(`no ping was requested: ${outcome.says}`) : outcome;
  }
  if (!hasChecks(result.body)) return notSlipway(202, JSON.stringify(result.body));
  state.ping = result.body as unknown as Ping;
  return pollPing(target, state, 'claim');
}

export const checkTaskResult = (target: DoctorTarget, state: ExaminationState): Promise<Outcome> =>
  state.ping ? pollPing(target, state, 'result') : Promise.resolve(skip('no ping was requested'));
