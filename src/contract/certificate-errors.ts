/** The part of the catalogue that is about release certificates. */
export const certificateErrors = {
  allocation_not_released: {
    status: 409,
    title: 'The allocation is not released',
    owner_layer: 'request',
    cause: 'A certificate is about a release, and this allocation is not released yet.',
    remedy: 'Release it and wait until it is released, then ask again.',
  },
  certificate_not_sealed: {
    status: 409,
    title: 'The release is not sealed yet',
    owner_layer: 'store',
    cause: 'The evidence of the release is not covered by a signed checkpoint yet. That takes about a second.',
    remedy: 'Wait `retry_after_seconds`, then repeat. If it lasts, `slipway sweeps` shows whether evidence-seal fails.',
  },
  certificate_evidence_changed: {
    status: 409,
    title: 'The evidence of this release was changed',
    owner_layer: 'operator',
    cause:
      'A row that the certificate rests on differs from what was sealed, or the allocation differs from its evidence. Somebody changed the database.',
    remedy: 'Run `slipway verify-store` to see what was changed, and restore the database from a backup.',
  },
  certificate_key_missing: {
    status: 409,
    title: 'The key of this seal is not held',
    owner_layer: 'operator',
    cause: 'The release was sealed with a key that the key file of this server does not hold, so it cannot be checked.',
    remedy: 'Copy the key file of the server that sealed it, or ask a replica that holds the key.',
  },
} as const;
