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
} as const;
