/** The command that starts an agent with a new token, as the CLI prints it. Pure. */

/** Passes the token in the environment: every user on a machine can read command lines. */
export const enrolLine = (token: string, server: string): string =>
  `SLIPWAY_ENROLLMENT_TOKEN=${token} slipway agent --server ${server}`;
