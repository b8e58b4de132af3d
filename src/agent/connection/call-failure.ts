/** Describes why and in which layer a call failed, with the codes of `doctor` and the timeline. */
import { errorName, faultOfError, type PathFaultCode, pathFaults } from '../../contract/errors/path-faults.ts';
import { errorText, isFields, numberOf, textOf } from '../state/shape.ts';

export interface CallFailure {
  /** The name of the call. */
  call: string;
  /** The owner according to the error catalogue. */
  owner_layer: string;
  /**
   * The most specific layer: dns, tcp, tls, ca, ingress (something other than Slipway answered), or
   * the layer that the server's problem names.
   */
  layer: string;
  code: string;
  /** The HTTP status; null if there was no answer. */
  status: number | null;
  detail: string;
  retry_after_seconds: number | null;
  deadline_at: string | null;
  /** Number of the last log line that the server stored although it refused the call. */
  acknowledged_seq?: number;
}

const noAnswer = { status: null, retry_after_seconds: null, deadline_at: null };

const failureOfFault = (call: string, code: PathFaultCode, detail: string): CallFailure => {
  const { owner_layer, detail_layer } = pathFaults[code];
  return { call, owner_layer, layer: detail_layer, code, detail, ...noAnswer };
};

export function failureOfError(call: string, error: unknown): CallFailure {
  const name = errorName(error);
  const detail = errorText(error);
  return failureOfFault(
    call,
    faultOfError(name ?? ''),
    name === null || detail.includes(name) ? detail : `${name}: ${detail}`,
  );
}

/** No answer came in time. `isConnected` says whether the connection was established. */
export function failureOfSilence(call: string, isConnected: boolean, seconds: number): CallFailure {
  return failureOfFault(call, isConnected ? 'no_answer' : 'tcp_unreachable', `no answer within ${seconds} s`);
}

/**
 * The reply is neither the expected one nor a Slipway problem. It may come from a proxy, a login
 * page or another service on the port.
 */
export function failureOfForeignReply(call: string, status: number, text: string): CallFailure {
  const detail = `answered ${status} with a reply that is not from Slipway: ${text.slice(0, 120)}`;
  return { ...failureOfFault(call, 'ingress_stranger', detail), status };
}

export function failureOfProblem(call: string, status: number, body: unknown): CallFailure | null {
  if (!isFields(body) || typeof body.code !== 'string' || typeof body.owner_layer !== 'string') return null;
  return {
    call,
    owner_layer: body.owner_layer,
    layer: textOf(body.detail_layer) ?? body.owner_layer,
    code: body.code,
    status,
    detail: textOf(body.detail) ?? '',
    retry_after_seconds: numberOf(body.retry_after_seconds),
    deadline_at: timeOf(body.deadline_at),
    ...(typeof body.acknowledged_seq === 'number' && { acknowledged_seq: body.acknowledged_seq }),
  };
}

/** Returns null for an invalid time, because every comparison with it would be false. */
function timeOf(value: unknown): string | null {
  const text = textOf(value);
  return text === null || Number.isNaN(Date.parse(text)) ? null : text;
}

const transientStatuses = new Set([408, 423, 425, 429]);

/** Whether the same call may succeed later. A foreign reply is always retried. */
export function isTransient({ status, layer }: CallFailure): boolean {
  return status === null || layer === 'ingress' || status >= 500 || transientStatuses.has(status);
}

export const describeFailure = ({ layer, code, detail }: CallFailure) =>
  `${layer}/${code}${detail ? `: ${detail}` : ''}`;
