/** The part of the error catalogue about secrets and privileged fields in pool documents. */
export const secretErrors = {
  pool_field_privileged: {
    status: 403,
    title: 'Only an admin may set this field of a pool',
    owner_layer: 'auth',
    cause: 'The field grants more rights than an operator has; `errors` lists each with the reason.',
    remedy:
      'Leave the field as it is, or let an admin declare the pool. An admin can also list the value under `operators_may` in the settings file.',
  },
  masked_value_unknown: {
    status: 400,
    title: 'Masked value without a stored value',
    owner_layer: 'request',
    cause: 'The document holds the marker of a stored value where no value is stored.',
    remedy: 'Write the value itself, or name a stored secret: `{secret: NAME}`.',
  },
  secret_not_found: {
    status: 404,
    title: 'Secret not found',
    owner_layer: 'request',
    cause: 'No secret with this name is stored.',
    remedy: 'List the secrets; set the missing one.',
  },
  secret_value_unsuitable: {
    status: 400,
    title: 'The value of the secret cannot be redacted safely',
    owner_layer: 'request',
    cause: 'The value is shorter than 16 characters, repeats a few characters, or is a word that Slipway itself uses.',
    remedy: 'Use a generated value of at least 16 characters.',
  },
  secret_in_use: {
    status: 409,
    title: 'The secret is in use',
    owner_layer: 'request',
    cause: 'A pool references it, or a machine that was launched with it is not retired.',
    remedy: 'Remove the secret from the pools and retire their machines first, or delete it with `force`.',
  },
} as const;
