/**
 * Every error code that an API call can return, with meaning, owner and remedy. Some groups of
 * codes are in files beside this one. docs/reference/errors.md is generated from the catalogue. The
 * code of a failed step is written where the step throws `StepFailed`.
 */
import { agentErrors } from './agent-errors.ts';
import { callerErrors } from './caller-errors.ts';
import { certificateErrors } from './certificate-errors.ts';
import { limitErrors } from './limit-errors.ts';
import type { OwnerLayer } from './problem.ts';
import { secretErrors } from './secret-errors.ts';

export interface ErrorEntry {
  status: number;
  title: string;
  owner_layer: OwnerLayer;
  detail_layer?: string;
  cause: string;
  remedy: string;
}

export const errorCatalogue = {
  malformed_json: {
    status: 400,
    title: 'The body is not valid JSON',
    owner_layer: 'request',
    cause: 'The body could not be parsed.',
    remedy: 'Send well-formed JSON, or YAML with its content type where it is accepted.',
  },
  malformed_request: {
    status: 400,
    title: 'The request is not well-formed HTTP',
    owner_layer: 'request',
    cause: 'The method, the URL, a header or the framing of the body could not be read.',
    remedy: 'Send well-formed HTTP/1.1; percent-encode special characters in the URL.',
  },
  headers_too_large: {
    status: 431,
    title: 'The headers are too large',
    owner_layer: 'request',
    cause: 'The URL and the headers together exceed the limit of the server.',
    remedy: 'Send shorter headers; move large values into the body.',
  },
  request_timeout: {
    status: 408,
    title: 'The request did not arrive in time',
    owner_layer: 'transport',
    cause: 'The connection was open, but the request was not complete in time.',
    remedy: 'Send it again, on a better connection or in smaller parts.',
  },
  invalid_request: {
    status: 400,
    title: 'The request does not match the contract',
    owner_layer: 'request',
    cause: 'A field is missing, unknown, of the wrong type or out of range; `errors` lists each.',
    remedy: 'Correct the listed fields; /docs shows the schema.',
  },
  invalid_cursor: {
    status: 400,
    title: 'Invalid cursor',
    owner_layer: 'request',
    cause: 'The cursor was changed or belongs to another list.',
    remedy: 'Start again without a cursor.',
  },
  evidence_cut: {
    status: 410,
    title: 'The evidence of that time was dropped',
    owner_layer: 'request',
    cause: 'Retention has dropped later evidence, so the state at that time is no longer certain.',
    remedy:
      'For history: choose a later time. For a certificate: it can no longer be issued, because evidence of the release was deleted. In future, fetch certificates sooner, or raise `evidence.keep_seconds` in the settings file.',
  },
  invalid_spec: {
    status: 400,
    title: "The pool's spec does not fit its driver",
    owner_layer: 'request',
    cause: "The driver's own schema refused `spec`.",
    remedy: 'Correct the listed fields; docs/reference/pools.md documents each.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'This route does not accept the content type',
    owner_layer: 'request',
    cause: 'The content type is missing, or the route does not accept it.',
    remedy:
      'Send application/json (pools also take application/yaml, logs application/x-ndjson, boot reports text/plain).',
  },
  body_too_large: {
    status: 413,
    title: 'The body is too large',
    owner_layer: 'request',
    cause: "The body exceeds the route's limit.",
    remedy: 'Send less at once.',
  },
  not_found: {
    status: 404,
    title: 'Not found',
    owner_layer: 'request',
    cause: 'No route matches the method and path.',
    remedy: 'See /docs for the routes.',
  },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    owner_layer: 'request',
    cause: 'The path exists with other methods.',
    remedy: 'See /docs for the routes.',
  },
  restoration_open: {
    status: 409,
    title: 'The database was restored, so this server only observes',
    owner_layer: 'operator',
    cause:
      'The restored database is older than the machines. Until a person has compared them, nothing is launched, released, judged or changed.',
    remedy:
      'Read `slipway restoration`, which lists the machines that differ. Then end it: `slipway restoration end --reason …`.',
  },
  ...limitErrors,

  ...callerErrors,

  pool_not_found: {
    status: 404,
    title: 'Pool not found',
    owner_layer: 'request',
    cause: 'The pool was never declared or has been deleted.',
    remedy: 'List the pools, or declare this one.',
  },
  pool_in_use: {
    status: 409,
    title: 'The pool still has live nodes',
    owner_layer: 'request',
    cause: 'Without the pool, nothing would manage its nodes.',
    remedy: 'Release its allocations, then retire the nodes that are left.',
  },
  pool_full: {
    status: 409,
    title: 'The pool is full',
    owner_layer: 'request',
    cause: 'The pool already holds as many nodes as `max_nodes` allows.',
    remedy: 'Raise `max_nodes`, retire a node, or release another allocation.',
  },
  pool_paused: {
    status: 409,
    title: 'The pool is paused',
    owner_layer: 'request',
    cause: 'An operator paused new launches.',
    remedy: 'Unpause the pool, or use another.',
  },
  driver_unknown: {
    status: 400,
    title: 'Unknown driver',
    owner_layer: 'request',
    cause: 'This server has no driver of that name.',
    remedy: 'Use one of the drivers that `detail` names.',
  },
  driver_fixed: {
    status: 409,
    title: "A pool's driver cannot change",
    owner_layer: 'request',
    cause: 'The pool exists with another driver.',
    remedy: 'Declare a new pool.',
  },
  pool_not_external: {
    status: 409,
    title: 'Only external pools expect nodes',
    owner_layer: 'request',
    cause: "This pool's driver launches its own machines.",
    remedy: 'Allocate from the pool instead.',
  },
  allocation_not_found: {
    status: 404,
    title: 'Allocation not found',
    owner_layer: 'request',
    cause: 'The id is unknown, or belongs to another tenant.',
    remedy: 'List your allocations.',
  },
  node_not_found: {
    status: 404,
    title: 'Node not found',
    owner_layer: 'request',
    cause: 'The id is unknown, or not visible to this tenant.',
    remedy: 'List the nodes.',
  },
  operation_not_found: {
    status: 404,
    title: 'Operation not found',
    owner_layer: 'request',
    cause: 'The id is unknown, or belongs to another tenant.',
    remedy: 'List the operations.',
  },
  task_not_found: {
    status: 404,
    title: 'Task not found for this node',
    owner_layer: 'request',
    cause: 'The id is unknown, or the task belongs to another instance.',
    remedy: 'Ask for the next task.',
  },
  session_not_found: {
    status: 404,
    title: 'Session not found',
    owner_layer: 'request',
    cause: 'The session has ended, or belongs to another token.',
    remedy: 'List the sessions (GET /v1/sessions) and use an id from there.',
  },
  token_not_found: {
    status: 404,
    title: 'Token not found',
    owner_layer: 'request',
    cause: 'The id is unknown or already deleted.',
    remedy: 'List the tokens.',
  },
  last_admin_token: {
    status: 409,
    title: 'Last admin token',
    owner_layer: 'operator',
    cause: 'Without this token, nobody could administer the installation.',
    remedy:
      'Create another admin token first (`slipway tokens create --name NAME --role admin`). A token that expires does not count. To replace the admin token of a host, run `slipway admin reset-token` there.',
  },
  hold_not_found: {
    status: 404,
    title: 'Hold not found',
    owner_layer: 'request',
    cause: 'The hold has ended by itself, was already resumed, or never existed.',
    remedy: 'List the current holds with `slipway brake`.',
  },
  finding_not_found: {
    status: 404,
    title: 'Finding not found',
    owner_layer: 'request',
    cause: 'The id is unknown, or the problem was seen only once.',
    remedy: 'List the findings; you can repair or accept open ones.',
  },
  maintenance_not_found: {
    status: 404,
    title: 'Maintenance window not found',
    owner_layer: 'request',
    cause: 'The window has ended, or was never declared.',
    remedy: 'List the maintenance windows.',
  },
  residue_not_found: {
    status: 404,
    title: 'Residue not found',
    owner_layer: 'request',
    cause: 'The id is unknown.',
    remedy: 'List the residue; removed residue stays listed with its proof.',
  },
  action_illegal: {
    status: 409,
    title: 'The action is not allowed in this state',
    owner_layer: 'request',
    cause: 'The state in `detail` does not allow this action.',
    remedy:
      'List the actions of the node or allocation. The list says which are available, and why the others are not.',
  },
  no_agent: {
    status: 409,
    title: 'No agent runs on this machine',
    owner_layer: 'request',
    cause: 'The machine is supervised by its provider or a client of another protocol, which takes no tasks.',
    remedy:
      "Use `slipway node ID` for its state, or `slipway act ID collect-diagnostics` for its provider's diagnostics.",
  },
  action_not_in_bulk: {
    status: 409,
    title: 'The action is not available in bulk',
    owner_layer: 'request',
    cause: 'The action works only on a single item.',
    remedy: 'Use one of the actions that `detail` names, or act on each item.',
  },
  operation_ended: {
    status: 409,
    title: 'The operation has already ended',
    owner_layer: 'request',
    cause: 'Only queued and running operations can be cancelled.',
    remedy: 'Read the operation; start a new one if needed.',
  },
  idempotency_mismatch: {
    status: 409,
    title: 'The idempotency key was used for another request',
    owner_layer: 'request',
    cause: 'The same key was sent with another body or route.',
    remedy: 'Use a new key for a new request.',
  },
  idempotency_in_progress: {
    status: 409,
    title: 'The first request with this key is still running',
    owner_layer: 'request',
    cause: 'The request was repeated before the first answer.',
    remedy: 'Repeat after `retry_after_seconds`.',
  },
  name_taken: {
    status: 409,
    title: 'A live instance uses this name',
    owner_layer: 'request',
    cause: 'Another machine is registered under this name.',
    remedy: 'Choose another name, or stop the other machine first.',
  },
  ...agentErrors,
  ...secretErrors,
  ...certificateErrors,

  store_unavailable: {
    status: 503,
    title: 'The database does not answer',
    owner_layer: 'store',
    cause: 'PostgreSQL is down, restarting or unreachable.',
    remedy: 'Repeat after `retry_after_seconds`; nothing was changed.',
  },
  not_ready: {
    status: 503,
    title: 'The server is not ready',
    owner_layer: 'control_plane',
    cause: 'The server is shutting down.',
    remedy: 'Repeat after `retry_after_seconds`.',
  },
  internal_error: {
    status: 500,
    title: 'Internal error',
    owner_layer: 'control_plane',
    cause: 'A defect in the server. The log has the details under the correlation id.',
    remedy: 'Report it with the correlation id.',
  },
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof errorCatalogue;

export interface ProblemExtras {
  detail?: string;
  retry_after_seconds?: number;
  deadline_at?: string;
  acknowledged_seq?: number;
  heartbeat_interval_seconds?: number;
  errors?: { path: string; message: string }[];
}

/** An error of the catalogue, thrown to become the reply. */
export class ApiProblem extends Error {
  override name = 'ApiProblem';
  readonly code: ErrorCode;
  readonly extras: ProblemExtras;
  constructor(code: ErrorCode, extras: ProblemExtras | string = {}) {
    const all = typeof extras === 'string' ? { detail: extras } : extras;
    super(all.detail ?? errorCatalogue[code].cause);
    this.code = code;
    this.extras = all;
  }
}
