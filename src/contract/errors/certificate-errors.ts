/** The part of the error catalogue about release certificates. */
export const certificateErrors = {
  allocation_not_released: {
    status: 409,
    title: 'The allocation is not released',
    owner_layer: 'request',
    cause: 'A certificate documents a release, and this allocation is not released yet.',
    remedy: 'Release it, wait until it is released, then repeat.',
  },
  certificate_not_sealed: {
    status: 409,
    title: 'The release is not sealed yet',
    owner_layer: 'store',
    cause: 'The evidence of the release is not covered by a signed checkpoint yet. That takes about a second.',
    remedy:
      'Wait `retry_after_seconds`, then repeat. If it persists, `slipway sweeps` shows whether evidence-seal fails.',
  },
  certificate_evidence_changed: {
    status: 409,
    title: 'The evidence of this release was changed',
    owner_layer: 'operator',
    cause:
      'A row that the certificate rests on differs from what was sealed, or the allocation differs from its evidence. Somebody changed the database.',
    remedy:
      'Run `slipway verify-store` to see what was changed. Keep a copy of the database for the investigation before you restore a backup.',
  },
  certificate_key_missing: {
    status: 409,
    title: 'This server lacks the key that sealed the release',
    owner_layer: 'operator',
    cause:
      'The release was sealed with a key that is not in the key file of this server, so its seal cannot be verified.',
    remedy:
      'Ask a replica that has the key. Do not overwrite a key file whose keys are in use; replicas should share one key file from the start.',
  },
} as const;
