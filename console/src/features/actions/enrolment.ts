/** The command that starts an agent with a new token, as the CLI prints it. Pure. */

/** In the environment: every user on the machine can read a command line. */
export const enrolLine = (token: string, server: string): string =>
  `SLIPWAY_ENROLLMENT_TOKEN=${token} slipway agent --server ${server}`;
