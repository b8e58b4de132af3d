/** ARM's errors: a status, `{error: {code, message}}`, and sometimes a Retry-After header. */

export interface ArmAnswer {
  status: number;
  headers?: Record<string, string>;
  body?: unknown;
}

export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly retry_after_seconds: number | undefined;
  constructor(status: number, code: string, message: string, retry_after_seconds?: number) {
    super(message);
    this.status = status;
    this.code = code;
    this.retry_after_seconds = retry_after_seconds;
  }
  answer(): ArmAnswer {
    return {
      status: this.status,
      headers: {
        'x-ms-error-code': this.code,
        ...(this.retry_after_seconds !== undefined && { 'retry-after': String(this.retry_after_seconds) }),
      },
      body: { error: { code: this.code, message: this.message } },
    };
  }
}

/** Errors with Azure's own codes and messages. */
export const refusals = {
  throttled: (seconds = 1) =>
    new Refusal(
      429,
      'TooManyRequests',
      'The request is being throttled as the limit has been reached for operation type - Write.',
      seconds,
    ),
  inProgress: (state = 'Updating', seconds = 1) =>
    new Refusal(
      409,
      'OperationNotAllowed',
      `Operation is not allowed: Another operation (${state}) is in progress, please wait for it to finish before starting a new operation. See https://aka.ms/aks-pending-operation for more details`,
      seconds,
    ),
  quota: () =>
    new Refusal(
      400,
      'ErrCode_InsufficientVCPUQuota',
      'Insufficient vcpu quota requested 40, remaining 8 for family standardDSv3Family for region westeurope.',
    ),
  sku: () =>
    new Refusal(
      400,
      'VMSizeNotSupported',
      "The VM size of Standard_D4s_v3 is not allowed in your subscription in location 'westeurope'.",
    ),
  version: () =>
    new Refusal(
      400,
      'K8sVersionNotSupported',
      'Managed cluster is on version 1.2.3 which is not supported in westeurope.',
    ),
  denied: () =>
    new Refusal(
      403,
      'AuthorizationFailed',
      "The client does not have authorization to perform action 'Microsoft.Authorization/roleAssignments/write' over the scope, or the scope is invalid.",
    ),
  principalNotFound: () =>
    new Refusal(
      400,
      'PrincipalNotFound',
      'Principal does not exist in the directory. Check that you have the correct principal ID. If you are creating this principal and then immediately assigning a role, this error might be related to a replication delay.',
    ),
  internal: () => new Refusal(500, 'InternalServerError', 'An internal server error occurred.'),
  unavailable: (seconds = 1) =>
    new Refusal(503, 'ServerTimeout', 'The request timed out. Please retry the operation.', seconds),
};
