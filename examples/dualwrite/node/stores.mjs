// The clients of both stores: @aws-sdk/client-dynamodb and @google-cloud/bigtable.
import { DynamoDB as Client } from '@aws-sdk/client-dynamodb'
import { v2 } from '@google-cloud/bigtable'
import { Refused, UnknownFamily } from './orders.mjs'

// One attempt per call: if the first attempt was executed, a retry fails on its own condition.
export class DynamoDB {
  constructor(options) { this.client = new Client({ ...options, maxAttempts: 1 }) }

  async call(operation, request) {
    try {
      return await this.client[operation](request)
    } catch (error) {
      if (error.$metadata?.httpStatusCode < 500) throw new Refused(error.name, { cause: error })
      throw error
    }
  }
}

// Each request has a deadline, and a write is not retried.
export class Bigtable {
  constructor(options) { this.client = new v2.BigtableClient(options) }

  // Whether the condition held, so that the row refused the write.
  async checkAndMutateRow(request) {
    try {
      const [answer] = await this.client.checkAndMutateRow(request, { timeout: 10_000, retry: null })
      return answer.predicateMatched
    } catch (error) {
      if (error.code === 5) throw new UnknownFamily('', { cause: error }) // NOT_FOUND
      throw error
    }
  }

  async readRows(request) {
    const answers = []
    for await (const answer of this.client.readRows(request, { timeout: 10_000 })) answers.push(answer)
    return answers // bytes are Buffers
  }
}
