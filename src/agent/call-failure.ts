/** Why a call to the control plane failed, and in which layer: the words that `doctor` and the timeline use too. */
import { errorCode, errorText, isFields, numberOf, textOf } from './shape.ts';

export interface CallFailure {
  /** What was being called. */
  call: string;
  /** dns, tcp, tls, ingress (something that is not us answered), or the layer that the server's problem names. */
  layer: string;
  code: string;
  /** Null when nobody answered. */
  status: number | null;
  detail: string;
  retry_after_seconds: number | null;
  deadline_at: string | null;
}

const dnsCodes = new Set(['ENOTFOUND', 'EAI_AGAIN', 'EAI_FAIL', 'EAI_NODATA', 'EAI_NONAME']);
const tlsCodes =
  /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|EPROTO|INVALID_CA|PATH_LENGTH)/;

function layerOfError(code: string): string {
  if (dnsCodes.has(code)) return 'dns';
  if (tlsCodes.test(code)) return 'tls';
  // Whoever speaks, it is not HTTP.
  if (code.startsWith('HPE_')) return 'ingress';
  return 'tcp';
}

const unanswered = { status: null, retry_after_seconds: null, deadline_at: null };

export function failureOfError(call: string, error: unknown): CallFailure {
  const code = errorCode(error) ?? 'unknown';
  return { call, layer: layerOfError(code), code, detail: errorText(error), ...unanswered };
}

/** Connected, or not even that, and nothing came back in time. */
export function failureOfSilence(call: string, connected: boolean, seconds: number): CallFailure {
  const layer = connected ? 'control_plane' : 'tcp';
  const code = connected ? 'no_answer' : 'connect_timeout';
  return { call, layer, code, detail: `no answer within ${seconds} s`, ...unanswered };
}

/** A reply that is neither what was asked for nor a problem of ours: a proxy, a login page, a stranger on our port. */
export function failureOfStranger(call: string, status: number, text: string): CallFailure {
  const detail = `answered ${status} with something that is not ours: ${text.slice(0, 120)}`;
  return {
    call,
    layer: 'ingress',
    code: `status_${status}`,
    status,
    detail,
    retry_after_seconds: null,
    deadline_at: null,
  };
}

export function failureOfProblem(call: string, status: number, body: unknown): CallFailure | null {
  if (!isFields(body) || typeof body.code !== 'string' || typeof body.owner_layer !== 'string') return null;
  return {
    call,
    layer: textOf(body.detail_layer) ?? body.owner_layer,
    code: body.code,
    status,
    detail: textOf(body.detail) ?? '',
    retry_after_seconds: numberOf(body.retry_after_seconds),
    deadline_at: timeOf(body.deadline_at),
  };
}

/** A deadline that is no time would have passed by any comparison. */
function timeOf(value: unknown): string | null {
  const text = textOf(value);
  return text === null || Number.isNaN(Date.parse(text)) ? null : text;
}

const transientStatus = new Set([408, 423, 425, 429]);

/** Whether the same call may succeed later. What a stranger says is never the control plane's last word. */
export function mayPass({ status, layer }: CallFailure): boolean {
  return status === null || layer === 'ingress' || status >= 500 || transientStatus.has(status);
}

export const describeFailure = ({ layer, code, detail }: CallFailure) =>
  `${layer}/${code}${detail ? `: ${detail}` : ''}`;
