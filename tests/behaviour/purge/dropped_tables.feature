Feature: Files of dropped tables

  Whatever the size of a table, its drop is answered at once. With purge, its files are then deleted, exactly
  its files, while other requests are answered as fast as before. "At once" is five seconds; short tests run
  beside others, on machines of any load, and measure nothing.

  Scenario Outline: A purge deletes every file of the table and no other
    Given a service on <storage>
    And a table "orders" of <files> files
    And a neighbour "orders2" of 20 files
    When "orders" is dropped with purge
    Then the drop was answered within <seconds> seconds
    And "orders" does not exist
    And its purge succeeds, with every file of "orders" counted as deleted
    And a listing finds no file of "orders"
    And a listing finds every file of "orders2"
    And loads of "orders2" were answered within <seconds> seconds meanwhile

    Examples:
      | storage      | files | seconds |
      | disk         | 30    | 60      |
      | an S3 server | 30    | 60      |

    @scale
    Examples:
      | storage      | files  | seconds |
      | disk         | 50000  | 5       |
      | disk         | 500000 | 5       |
      | an S3 server | 50000  | 5       |

  Scenario Outline: A purge on S3 whose data files are gone for the most part
    Given a service on an S3 server
    And a table "orders" of <files> files, of which <written> are there
    When "orders" is dropped with purge
    Then the drop was answered within <seconds> seconds
    And "orders" does not exist
    And its purge succeeds, with every file of "orders" counted as deleted
    And a listing finds no file of "orders"

    Examples:
      | files | written | seconds |
      | 30    | 10      | 60      |

    @scale
    Examples:
      | files  | written | seconds |
      | 500000 | 1000    | 5       |

  Scenario Outline: A drop without purge keeps every file, and the table comes back
    Given a service on disk
    And a table "orders" of <files> files
    When "orders" is dropped without purge
    Then the drop was answered within <seconds> seconds
    And "orders" does not exist
    And there is no purge of "orders"
    And a listing finds every file of "orders"
    When "orders" is registered again
    Then "orders" is as it was

    Examples:
      | files | seconds |
      | 30    | 60      |

    @scale
    Examples:
      | files | seconds |
      | 50000 | 5       |

  Scenario Outline: The name is free at once
    Given a service on disk
    And a table "orders" of <files> files
    When "orders" is dropped with purge
    And a table "orders" of 20 files is made at another location at once
    Then the purge of the first "orders" succeeds
    And a listing finds every file of "orders"
    And "orders" is as it was

    Examples:
      | files |
      | 30    |

    @scale
    Examples:
      | files |
      | 50000 |

  Scenario Outline: What cannot be deleted is reported, and deleted later
    Given a service on disk whose purges have one attempt
    And a table "orders" of <files> files
    And a manifest of "orders" is damaged
    When "orders" is dropped with purge
    Then its purge ends as a dead letter that names the manifest
    And the metadata file of "orders" and what leads to the manifest are still there
    And a listing finds only files that the manifest and its parents need
    When the manifest is repaired and the purge retried
    Then its purge succeeds
    And a listing finds no file of "orders"

    Examples:
      | files |
      | 30    |

    @scale
    Examples:
      | files |
      | 50000 |

  Scenario Outline: Many tables are dropped at once
    Given a service on disk
    And <tables> tables of <files> files each
    When <clients> clients drop all of them with purge, each at most once
    Then every drop was answered within <seconds> seconds
    And every table has one purge, and all succeed
    And a listing finds no file

    Examples:
      | tables | clients | files | seconds |
      | 10     | 5       | 5     | 60      |

    @scale
    Examples:
      | tables | clients | files | seconds |
      | 100    | 20      | 500   | 5       |
